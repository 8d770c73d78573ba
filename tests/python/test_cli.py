"""The command `oxyfuel`: what it prints, and its exit codes."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import oxyfuel
from oxyfuel.cli.app import app
from oxyfuel.cli.console import CommandError, ExitCode


def invoke(*words):
    return CliRunner().invoke(app, list(words), prog_name="oxyfuel")


def run_process(*words, **environment):
    """As the shell does it."""
    return subprocess.run(
        [sys.executable, "-m", "oxyfuel.cli", *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_help_lists_commands_and_exit_codes():
    result = invoke("--help")
    assert result.exit_code == 0
    assert "run" in result.output
    text = " ".join(result.output.split())
    for code in ExitCode:
        assert f"{code.value} {code.meaning}" in text


def test_version():
    assert invoke("--version").output == f"oxyfuel {oxyfuel.__version__}\n"


@pytest.mark.parametrize(
    "words", [["nonsense"], ["run", "--nonsense"], ["run", "nonsense"], ["run", "--threads", "-1"]]
)
def test_unknown_words_are_usage_errors(words):
    assert invoke(*words).exit_code == ExitCode.USAGE.value


def test_help_does_not_import_torch():
    code = (
        "import sys, oxyfuel.cli.app as a; sys.argv = ['oxyfuel', '--help']\ntry: a.main()\nexcept SystemExit: pass\n"
    )
    code += "print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "False"


def test_completion_of_commands_and_values():
    def complete(text):
        words = text.split(" ")
        result = run_process(_OXYFUEL_COMPLETE="complete_bash", COMP_WORDS=text, COMP_CWORD=str(len(words) - 1))
        return result.stdout.split()

    assert "run" in complete("oxyfuel ru")
    assert complete("oxyfuel run re") == ["resnet50"]


def test_failure_is_told_on_standard_error(monkeypatch, capsys):
    import oxyfuel.cli.app as module

    def fail(**_):
        raise CommandError(ExitCode.MISSING, "no [such] thing\n  or     another")

    monkeypatch.setattr(module, "app", fail)
    with pytest.raises(SystemExit) as left:
        module.main()
    assert left.value.code == 4
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == ["no [such] thing", "  or     another"]


@pytest.mark.slow
def test_run_prints_a_row_of_json_a_model():
    result = run_process("run", "resnet50", "--json", "--seconds", "0.1")
    assert result.returncode == 0, result.stderr
    row = json.loads(result.stdout)
    assert row["name"] == "ResNet-50, 224 x 224"
    assert row["right"] == "yes"
    assert row["native_flops"] == 1.0


def test_models_of_run_are_those_that_exist():
    from oxyfuel.cli.run import Model
    from oxyfuel.models import MODELS

    assert [model.value for model in Model] == list(MODELS)
