"""The measured numbers at which a search changes from one query plan to another."""

# Matches that are read and tested at once, whatever else that costs.
SMALL_RESULT = 1000
# The largest set whose documents are tested instead of joining it.
TESTED_SET = 30_000
# Texts that PostgreSQL's index of trigrams finds faster than a scan of the property.
TRIGRAM_SET = 50_000
# More than the ids of any scan.
ANY_NUMBER = 2**53
# Ids of matches of several filters that are kept for the page, since a second look is as expensive.
COUNTED = 10_000
# A walk is worth this many documents for each match.
WALK_PER_MATCH = 1.0
# A walk halts after this many times the documents that it should take.
WALK_FACTOR = 2
# Documents of a longer walk, before sets are joined for a guess.
LONGER_WALK = 30_000
LONGEST_WALK = 1_000_000
LONGEST_INDEX_WALK = 100_000
# Each window of a walk is this many times as wide as the one before.
WINDOW_GROWTH = 2
# A smaller part of all records is fetched instead of guessed.
GUESSED_PART = 0.01
# Ids read for each record of a guessed page; fewer while a walk can go on instead.
READ_PER_GUESS = 20
TESTED_AFTER_GUESS = 10_000
TESTED_AFTER_GUESS_EARLY = 5000
