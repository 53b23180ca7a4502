"""The order of destruction: muranopl.md section 21."""

from hypothesis import given
from hypothesis import strategies as st

from vetro.muranopl.runtime.destruction import destruction_waves, notification_order


def waves(batch, owners=(), subscriptions=()):
    owners, subs = dict(owners), list(subscriptions)
    return destruction_waves(
        batch, owners.get, lambda item: [second for first, second in subs if first == item]
    )


def test_owned_objects_go_before_their_owner():
    """Children first, independent ones together."""
    assert waves(["app", "vm", "disk"], {"vm": "app", "disk": "vm"}) == [["disk"], ["vm"], ["app"]]
    assert waves(["a", "b"]) == [["a", "b"]]


def test_a_publisher_goes_before_its_subscriber():
    """A subscription orders two unrelated objects."""
    assert waves(["vm", "volume"], subscriptions=[("volume", "vm")]) == [["volume"], ["vm"]]


def test_a_cycle_is_broken_at_its_first_member():
    """Mutual subscriptions do not hang and the result is always the same."""
    loop = [("a", "b"), ("b", "a")]
    assert waves(["a", "b"], subscriptions=loop) == [["a"], ["b"]]


def test_objects_outside_the_batch_order_nothing():
    """An owner that stays is not waited for."""
    assert waves(["a"], {"a": "root"}) == [["a"]]


def test_notifications_go_to_owners_first():
    """The owner side is told before what it owns."""
    owners = {"disk": "vm", "vm": "app"}
    assert notification_order(["disk", "vm", "app"], owners.get) == ["app", "vm", "disk"]


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=12))
def test_everything_is_destroyed_once_and_forests_keep_their_order(edges):
    """Whatever the edges, each object is in one wave; acyclic ones obey every edge."""
    batch = list(range(8))
    result = waves(batch, subscriptions=edges)
    flat = [item for wave in result for item in wave]
    assert sorted(flat) == batch
    if all(first < second for first, second in edges):
        place = {item: number for number, wave in enumerate(result) for item in wave}
        assert all(place[first] < place[second] for first, second in edges)
