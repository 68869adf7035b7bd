"""The parts of `probe --as-service` that need no systemd. tests/package runs the command with systemd."""

from __future__ import annotations

from pathlib import Path

import pytest

from capacityd.cli import run
from capacityd.cli.options import Options
from capacityd.cli.sandbox import _bind_setting, _probe_arguments, unit_settings
from capacityd.model.options import Selection

UNIT = """\
[Unit]
StartLimitIntervalSec=0
[Service]
Type=notify
ExecStart=/usr/bin/capacityd run
TimeoutStartSec=10min
WatchdogSec=180
RuntimeDirectoryPreserve=restart
UMask=0077
# A comment.
; Another.
ReadOnlyPaths=-/sys/block \\
# in between
    -/sys/bus
[Install]
WantedBy=multi-user.target
# /etc/systemd/system/capacityd.service.d/own.conf
[Service]
 Environment = "A=b c"
ProtectHome=
[X-Other]
PrivateTmp=no
"""


def test_the_sandbox_settings_of_the_unit_are_read() -> None:
    assert list(unit_settings(UNIT)) == [
        "UMask=0077",
        "ReadOnlyPaths=-/sys/block  -/sys/bus",
        'Environment="A=b c"',
        "ProtectHome=",
    ]


def test_the_options_are_passed_to_the_probe_in_the_sandbox() -> None:
    selection = Selection(config="/srv/a: b.toml", node_name="n1")
    options = Options("probe", selection, json=True, explain=True)
    expected = ["probe", "--explain", "--json", "--node-name=n1", "--config=/srv/a: b.toml"]
    assert _probe_arguments(options) == expected
    assert _probe_arguments(Options("probe", Selection())) == ["probe"]


def test_the_path_of_the_configuration_is_escaped_in_the_setting() -> None:
    assert _bind_setting("/srv/a: b.toml") == r"BindReadOnlyPaths=-/srv/a\:\ b.toml"


@pytest.mark.parametrize(
    ("systemctl", "expected"),  # a script in place of systemctl (None: there is none), and the error
    [
        (None, "could not run systemctl: No such file or directory; --as-service needs systemd"),
        ("echo none >&2; exit 1", "could not read the unit capacityd.service: none"),
    ],
)
def test_without_the_service_probe_as_service_is_an_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    systemctl: str | None,
    expected: str,
) -> None:
    if systemctl is not None:
        (tmp_path / "systemctl").write_text(f"#!/bin/sh\n{systemctl}\n")
        (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin" if systemctl else str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert run(["probe", "--as-service"]) == 1
    assert capsys.readouterr().err == f"capacityd: {expected}\n"


def test_without_root_probe_as_service_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert run(["probe", "--as-service"]) == 1
    assert "needs root" in capsys.readouterr().err
