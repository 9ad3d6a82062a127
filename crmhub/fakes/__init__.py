"""Stand-ins for CRMs that speak over real HTTP: for tests, and to try the hub without an account.

They know nothing of the hub, so that what they check is the vendor's API and not our idea of it.
"""
