"""Rules about models, asked before each deployment (catalog-api.md §12; docs/decisions/0320).

A model becomes facts (``facts``), an operator's rules derive from them what to change and what to refuse
(``rules``), and changes are made in the model (``changes``); ``enforcement`` puts them together. Off unless
``engine.enable_model_policy_enforcer`` is set.
"""

from vetro.engine.policy.enforcement import ModelRefused, enforce, read_rules
from vetro.engine.policy.rules import RulesError
