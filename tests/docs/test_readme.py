"""The README is one page for users, and its first two commands are the two that a newcomer needs."""

import os

from tests.architecture.tracked import ROOT
from tests.docs.blocks import blocks_of


def test_the_first_two_commands_show_the_product_and_check_it() -> None:
    commands = [
        command for block in blocks_of("README.md") for command in block.commands if block.language == "bash"
    ]
    assert commands[:2] == ["./infra/demo", "./infra/test"]


def test_both_commands_can_be_run() -> None:
    assert [
        name
        for name in ("infra/demo", "infra/test", "infra/setup.sh", ".ci/run")
        if not os.access(ROOT / name, os.X_OK)
    ] == []


def test_it_is_one_page() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 220
