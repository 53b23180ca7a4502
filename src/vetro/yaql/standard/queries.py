from ..evaluation import Evaluation
from ..registry import Registry
from ..signatures import Items, Lambda
registry = Registry()

@registry.method_legacy_both("where", "filter")
def where(rt: Evaluation, collection: Items, predicate: Lambda):
    return filter(predicate, collection)

@registry.method_legacy_both("select", "map")
def select(rt: Evaluation, collection: Items, selector: Lambda):
    return map(selector, collection)

@registry.method()
def to_list(rt: Evaluation, collection: Items):
    return list(collection)
