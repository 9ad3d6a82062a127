"""What the plans of a search cost, measured: from where on one is cheaper than another."""

# So many are fetched whatever else they cost, and so many tested before sets are joined.
SMALL_RESULT = 1000
TESTED_SET = 10_000
# A walk is worth so many documents for each match, or each dated one, and halts after so many times
# as many as it should take. It goes on for as many as match, but for so many at most before sets
# are joined to guess; where none are, for no more at all, and on SQLite, which looks ids up faster
# than it reads documents, for this part of the matches.
WALK_PER_MATCH = 1.0
WALK_PER_DATED_MATCH = 0.2
WALK_FACTOR = 2
LONGER_WALK = 30_000
WALK_PART_ON_SQLITE = 0.25
LONGEST_WALK = 1_000_000
# So many dated matches are sorted before anything is guessed, or walked to for long.
SORTED_DATED = 100_000
SORTED_DATED_ON_SQLITE = 40_000
# Of entries of an index that tells itself what passes.
LONGEST_INDEX_WALK = 100_000
# A window of a walk is so many times as wide as the one before.
WINDOW_GROWTH = 2
# A smaller part of everything is fetched and not guessed. On SQLite, which can prove the guess in
# the sort order alone, the part is so many times as large.
GUESSED_PART = 0.01
GUESSED_FACTOR_ON_SQLITE = 10
# How many ids are read for each record of a guessed page, and how many others may be tested: fewer
# while there is a walk to go on with, since a document that is walked to is tested sooner.
READ_PER_GUESS = 20
TESTED_AFTER_GUESS = 10_000
TESTED_AFTER_GUESS_EARLY = 5000
