"""probe: reads the configured resources on this machine. Requires no cluster, unless `when` tests the Node's name."""

from __future__ import annotations

from capacityd.cli.configured import config_of
from capacityd.cli.options import Options
from capacityd.cli.output.explain import print_explanation, reason_text
from capacityd.cli.output.terminal import print_json, print_message, print_table
from capacityd.discovery.runner import probe as probe_resources
from capacityd.model.errors import NodeError
from capacityd.model.host import Host
from capacityd.model.options import Selection
from capacityd.model.reading import Unknown, is_below, reading_as_dict, reading_text
from capacityd.schema.config import Config
from capacityd.worker.selection import host_of, node_name_of, node_of


def probe(options: Options) -> int:
    """Prints the readings. Returns exit status 4 if a reading is unknown or less than expected."""
    if options.as_service:
        from capacityd.cli.sandbox import run_in_sandbox  # imported only here: takes 20 ms

        return run_in_sandbox(options)
    host = host_of(options.selection)
    config = config_of(options.selection)
    node_name = _node_name(options.selection, config, host)
    readings = probe_resources(config, host, node_name=node_name, explain=options.explain)
    expected = config.expectations()
    below_expect = {name for name, reading in readings.items() if is_below(reading, expected.get(name))}
    unknown = {name for name, reading in readings.items() if isinstance(reading, Unknown)}
    not_as_expected = below_expect | unknown
    if options.json:
        resources = []
        for name, reading in readings.items():
            expectation = {"expect": expected.get(name), "below_expect": name in below_expect}
            resources.append(reading_as_dict(name, reading) | expectation)
            if name in not_as_expected:
                print_message(f"{name}: {reading_text(reading)}: {reason_text(reading, expected.get(name))}")
        print_json({"resources": resources})
    elif options.explain:
        for resource in sorted(config.resources, key=lambda resource: resource.name):
            print_explanation(resource, readings[resource.name])
    else:
        rows = [
            (name, reading_text(reading), reason_text(reading, expected.get(name)))
            for name, reading in readings.items()
        ]
        print_table(rows, ("RESOURCE", "QUANTITY", "REASON"))
    return 4 if not_as_expected else 0


def _node_name(selection: Selection, config: Config, host: Host) -> str | None:
    """The given name of the Node. If a `when` tests the name: the name in the Node file or in the credentials.

    Returns None if the name is not known: for a recorded machine without a Node file, or if only the host name suggests
    a name. If the name can't be read because of an error, prints the error and returns None.
    """
    given_name = node_name_of(selection, config)
    is_tested = any(test.key == "node_name" for resource in config.resources for test in resource.when)
    if not is_tested:
        return given_name
    needs_no_credentials = given_name is not None or selection.machine is not None
    if selection.node_file is None and needs_no_credentials:
        return given_name
    try:
        return node_of(selection, config, host).identify()
    except NodeError as e:
        print_message(f"the Node's name is not known: {e}")
        return None
