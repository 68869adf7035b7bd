"""Hypothesis strategies for the acts of random histories. A value that a list repeats is drawn more often."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from capacityd.model.reading import Absent, Quantity, Unknown
from capacityd.model.reasons import PassReason
from capacityd.schema.config import Settings
from tests.support.denials import Denies, alterations, denials
from tests.support.model import acts, others
from tests.support.model.machine import configuration
from tests.support.model.server import LABELS, NAMES, OURS

RESYNC = 3600.0

pauses = st.sampled_from([0.0, 0.3, 2.0, 6.0, 15.0, 70.0, 200.0])
_names = st.sampled_from(NAMES)
_ours = st.sampled_from(OURS)
_keys = st.sampled_from([*NAMES, *LABELS, "cpu"])  # cpu is a native resource, never capacityd's
_sets = st.frozensets(_names)
_quantities = st.builds(Quantity, st.integers(0, 4))
_readings = st.one_of(_quantities, _quantities, st.just(Absent("none")), st.just(Unknown("busy")))
_values = st.sampled_from([None, "0", "1", "2", "3", "4", "1500m", "1k"])
_reasons = st.sampled_from([PassReason.DEVICES, PassReason.FILE, None])  # None: no event reports the change
_lifetimes = st.sampled_from([20.0, 100.0, 300.0])  # the seconds after which a file is too old to be valid
_annotations = st.one_of(
    st.sampled_from([None, "", "garbage", "[]", '{"cpu": 8}', '{"example.com/a": "2"}', '{"a/b/c": 1}']),
    st.dictionaries(_keys, st.integers(0, 4)).map(json.dumps),
    st.just(json.dumps({f"example.com/x{number}": number for number in range(200)})),
)
_settings = st.builds(
    Settings,
    observe=st.sampled_from([False, False, False, True]),
    condition=st.sampled_from([True, True, False]),
    lower_after=st.sampled_from([10.0, 10.0, 0.0, 6.0, 15.0, 70.0]),
    resync=st.sampled_from([RESYNC, RESYNC, 900.0]),
)
_configurations = st.builds(
    configuration, _sets, adopt=_sets, broken=_sets, labelled=_sets, settings=_settings, complete=st.booleans()
)
_label_denials = st.builds(Denies, st.sampled_from(LABELS[:2]), st.sampled_from([403, 409, 422, 500]))

_changes_of_the_node = st.one_of(
    st.builds(others.write, _keys, _values),
    st.builds(others.annotate, _annotations),
    st.builds(others.write_and_annotate, _ours, _values, st.sampled_from([None, "", "garbage", "[]"])),
    st.builds(others.write_allocatable, st.sampled_from([*NAMES, "cpu"]), _values),
    st.builds(others.add_condition, ours=st.booleans()),
    st.builds(others.change_condition, removed=st.booleans()),
    st.builds(others.delete_node),
    st.builds(others.register_node_anew, st.sampled_from(["", "", *OURS])),
    st.builds(others.zero),
    st.builds(others.restart_kubelet, zeroes=st.booleans(), delay=st.sampled_from([0.0, 0.4, 20.0])),
)
_of_the_machine = st.one_of(
    st.builds(acts.change_reading, _names, _readings, _reasons),
    st.builds(acts.change_reading, _ours, _quantities, _reasons),
    st.builds(acts.change_reading, _ours, _quantities, st.just(PassReason.FILE), valid_for=_lifetimes),
    st.builds(
        acts.change_reading_often,
        _ours,
        st.lists(_readings, min_size=2, max_size=8).map(tuple),
        pause=st.sampled_from([0.1, 1.5, 10.0, 12.0, 60.0]),
    ),
    st.builds(acts.replace_file, _names, _readings),
    st.builds(acts.use_up_inotify, used_up=st.booleans()),
    st.builds(acts.configure, _configurations),
    st.builds(acts.set_clock, st.sampled_from([-3600.0, -10.0, 10.0, 100_000.0])),
    st.builds(acts.reboot, zeroes=st.booleans(), delay=st.sampled_from([0.4, 20.0])),
    st.builds(acts.suspend, st.sampled_from([30.0, 10_000.0])),
    st.builds(acts.restart_service),
    st.builds(acts.kill_worker, point=st.integers(0, 12), name=_ours, reading=_readings),
    st.builds(acts.change_plugin_list, readable=st.booleans(), reported=st.booleans()),
    st.builds(acts.start_plugin, _names, count=st.integers(0, 4), synced=st.booleans()),
    st.builds(acts.end_plugin, _names),
)
_of_others = st.one_of(
    _changes_of_the_node,
    st.builds(others.just_before_a_patch, _changes_of_the_node, st.builds(acts.change_reading, _ours, _quantities)),
    st.builds(others.report_allocatable, _sets),
    st.builds(others.publish_the_same, _ours, quantity=st.integers(0, 4), lost=st.booleans()),
    st.builds(others.cut_watch, st.sampled_from([0.0, 5.0, 30.0])),
    st.builds(others.hang_watch, st.sampled_from([5.0, 130.0])),
    st.builds(others.repeat_watch),
    st.builds(others.delay_watch, st.sampled_from([0.0, 0.5, 2.0])),
    st.builds(others.allow_watch, allowed=st.booleans()),
    st.builds(
        others.set_fault,
        st.sampled_from(["", "", "unreachable", "busy", "denied", "rejected"]),
        lost_answers=st.integers(0, 2),
        lost_requests=st.integers(0, 2),
    ),
    st.builds(others.deny, st.lists(denials | _label_denials, max_size=2).map(tuple), _readings),
    st.builds(others.alter, st.lists(alterations, max_size=1).map(tuple), _ours, _readings),
    st.builds(others.start_other_capacityd, _ours, _readings),
    st.builds(others.stop_other_capacityd),
)
_rests = st.one_of(st.builds(acts.wait, st.sampled_from([70.0, 700.0, 8000.0])), st.builds(acts.end_causes))

random_acts = st.one_of(_rests, _of_the_machine, _of_others)
