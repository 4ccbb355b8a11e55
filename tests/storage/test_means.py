from agent57.storage.means import Means


def test_means_are_over_the_times_a_scalar_was_given():
    means = Means()
    means.add({"a": 1.0, "b": 5.0})
    means.add({"a": 3.0})
    assert means.means() == {"a": 2.0, "b": 5.0}


def test_means_go_on_from_their_state_and_begin_anew():
    means, copy = Means(), Means()
    means.add({"a": 1.0})
    copy.load_state_dict(means.state_dict())
    copy.add({"a": 4.0})
    assert copy.means() == {"a": 2.5}
    assert means.means() == {"a": 1.0}
    means.clear()
    assert means.means() == {}
