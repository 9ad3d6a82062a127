"""Operations for operators: accounts, their CRMs and actions, alerts, backups, erasure."""
