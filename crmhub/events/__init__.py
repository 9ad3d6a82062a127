"""Events of accounts: written with the change that they tell of, and delivered to subscriptions."""
