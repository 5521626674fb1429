"""`packetboat export-runner`: a plug-in of the `packetboat` command. Heavy parts are imported when
needed.

Exit status: 0 stopped as told · 1 cannot be started · 2 wrong use · 78 starting again changes
nothing before somebody does.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from spark_exports.order import LakeSettings
    from spark_exports.runner.settings import RunnerSettings

FAILED = 1
WRONG_USE = 2
CANNOT = 78

runner = typer.Typer(
    name="export-runner",
    invoke_without_command=True,
    add_completion=False,
)
app = typer.Typer(
    name="packetboat-exports",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(runner)
Lakes = Annotated[
    Path | None,
    typer.Option(
        "--lakes", help="File that lists the lakes, JSON or TOML. Default: PACKETBOAT_LAKES."
    ),
]


@runner.callback()
def start(
    context: typer.Context,
    lakes: Lakes = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the runner. Default: host/process id.")
    ] = None,
    concurrency: Annotated[int | None, typer.Option(help="Drivers at once. Default: 1.")] = None,
    drain_seconds: Annotated[
        float | None,
        typer.Option(help="Time for running drivers after SIGTERM. Default: 30."),
    ] = None,
    driver_memory: Annotated[
        str | None, typer.Option(help="Java heap of a driver, such as 2g.")
    ] = None,
    state_dir: Annotated[
        Path | None, typer.Option(help="Directory for the files of working drivers.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Port for Prometheus metrics. Default: none.")
    ] = None,
) -> None:
    """Run exports: claim their runs and carry them out with Spark, until SIGTERM.

    The platform is that of PACKETBOAT_URL, with the credential of PACKETBOAT_CLIENT_ID and
    PACKETBOAT_CLIENT_SECRET: an operator's with the permission run_exports.
    """
    context.obj = lakes
    if context.invoked_subcommand is not None:
        return
    settings, known = _read(
        lakes=lakes,
        name=name,
        concurrency=concurrency,
        drain_seconds=drain_seconds,
        driver_memory=driver_memory,
        state_dir=state_dir,
        metrics_port=metrics_port,
    )
    from spark_exports.runner import logs, requirements

    if absent := requirements.missing():
        raise _ended(requirements.advice(absent), CANNOT)
    from spark_exports.runner.runner import run
    from spark_exports.runner.state_dir import StateDirInUse

    try:
        logs.configure(settings.log_level, settings.name)
        code = run(settings, known)
    except (StateDirInUse, OSError) as error:
        raise _ended(error, FAILED) from None
    except ValueError as error:
        raise _ended(error, WRONG_USE) from None
    raise typer.Exit(code)


@runner.command()
def check(context: typer.Context, lakes: Lakes = None) -> None:
    """Check whether a runner could work here: its lakes, Spark, Java, and the platform."""
    settings, known = _read(lakes=lakes or context.obj)
    from spark_exports.runner.checking import checked

    well = True
    for finding in checked(settings, known):
        well &= finding.well
        typer.echo(f"{'ok  ' if finding.well else 'FAIL'}  {finding.what}: {finding.text}")
    raise typer.Exit(0 if well else FAILED)


def _read(**given: Any) -> tuple[RunnerSettings, dict[str, LakeSettings]]:
    from spark_exports.runner.lakes import LakesError, lakes_in
    from spark_exports.runner.settings import RunnerSettings, SettingsError

    try:
        settings = RunnerSettings.from_environment(**given)
    except SettingsError as error:
        raise _ended(error, WRONG_USE) from None
    try:
        return settings, lakes_in(settings.lakes)
    except LakesError as error:
        raise _ended(error, CANNOT) from None


def _ended(reason: object, code: int) -> typer.Exit:
    for line in str(reason).splitlines():
        sys.stderr.write(f"packetboat export-runner: {line}\n")
    return typer.Exit(code)


def main() -> None:
    typer.main.get_command(runner)(prog_name="packetboat export-runner")
