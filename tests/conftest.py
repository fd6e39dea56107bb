"""What all tests share: the backends, and a summary that says which groups were left out and why."""

import importlib.util
import signal

import hypothesis
import numba
import numpy as np
import pytest

import kernels

hypothesis.settings.register_profile(
    "project", deadline=None, derandomize=True, max_examples=40, print_blob=False, database=None
)  # deadline: the first example may compile a kernel; derandomize: the same examples on every machine
hypothesis.settings.load_profile("project")

LEFT_OUT: dict[str, str] = {}


def pytest_addoption(parser):
    parser.addoption("--backend", action="append", metavar="NAME", help="only these backends (default: all there are)")


def pytest_configure(config):
    # what a shell starts in the background ignores these, and so would every program that a test starts
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for name in config.getoption("--backend") or ():
        try:
            kernels.backend(name)
        except kernels.BackendError as error:
            raise pytest.UsageError(str(error)) from None
    if importlib.util.find_spec("mpi4py") is None:
        LEFT_OUT["training on several ranks"] = "mpi4py is not installed: pip install 'minitransformer[mpi]'"
    for name, reason in kernels.reasons().items():
        if reason is not None:
            LEFT_OUT[f"backend {name}"] = reason


def pytest_report_header(config):
    """Which GPU the tests run on, where they do."""
    folders = [kernels.backend(name).folder for name in config.getoption("--backend") or kernels.available()]
    return [f"GPU: {folder.device()}" for folder in folders if callable(getattr(folder, "device", None))]


def pytest_generate_tests(metafunc):
    if "backend" in metafunc.fixturenames:
        names = metafunc.config.getoption("--backend") or kernels.available()
        metafunc.parametrize("backend", names, indirect=True)


@pytest.fixture(autouse=True, scope="module")
def threads(request):
    """Kernels have all their threads where kernels are tested, and one elsewhere: `make test` gives each process a
    core, and waiting for another would take longer than the work."""
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS if request.path.parent.name == "kernels" else 1)


@pytest.fixture
def backend(request):
    """The test runs once on every backend that works here."""
    with kernels.use(request.param) as chosen:
        yield chosen


@pytest.fixture
def rng():
    return np.random.default_rng(0)


# marker → what such tests are, and the command that runs them
ON_REQUEST = {
    "models": ("tests with real models", "make test-models"),
    "oracle": ("tests against other implementations or NVIDIA's compiler", "make test-oracles"),
    "hostile": ("attacks on the whole program", "make test-hostile"),
    "slow": ("tests that take minutes: lessons, results, mutation scores, every access checked", "make test-slow"),
}


def pytest_ignore_collect(collection_path, config):
    """The files of comparisons import PyTorch and others, which takes seconds in every process: they are not even read
    by the targets that run none of them."""
    if collection_path.name.startswith("test_oracle") and config.getoption("-m") in ("", "slow", "hostile", "browser"):
        LEFT_OUT["the files test_oracle*.py, against other implementations"] = "run them by: make test-oracles"
        return True


@pytest.hookimpl(tryfirst=True)  # before pytest itself looks at the markers
def pytest_collection_modifyitems(config, items):
    """Some groups run only when they are asked for: `-m oracle`, which make test-oracles says; all of tests/hostile is
    such a group. And with the mark `slow_on("emulated")` a test is slow on that backend, where the same lines run on
    the others every time."""
    for item in items:
        if item.path.parent.name == "hostile":
            item.add_marker("hostile")
        for mark in item.iter_markers("slow_on"):
            if item.callspec.params.get("backend") in mark.args:
                item.add_marker("slow")
    asked = config.getoption("-m")
    if asked:
        if "oracle" in asked and importlib.util.find_spec("torch") is None:
            raise pytest.UsageError("the oracle tests need PyTorch: make test-oracles installs it")
        return
    for marker, (what, command) in ON_REQUEST.items():
        group = [item for item in items if item.get_closest_marker(marker)]
        if group:
            LEFT_OUT[f"{len(group)} {what}"] = f"run them by: {command}"
            config.hook.pytest_deselected(items=group)
            left_out = set(group)
            items[:] = [item for item in items if item not in left_out]


def pytest_sessionfinish(session):
    """Where several processes share the tests, each tells the first one what it has left out."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = LEFT_OUT


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_testnodedown(node):
    LEFT_OUT.update(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_runtest_logreport(report):
    if report.skipped and isinstance(report.longrepr, tuple):
        LEFT_OUT[report.nodeid] = report.longrepr[2].removeprefix("Skipped: ")


def pytest_collectreport(report):
    if report.skipped and isinstance(report.longrepr, tuple):
        LEFT_OUT[report.nodeid] = report.longrepr[2].removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter):
    reports = [report for group in ("passed", "failed") for report in terminalreporter.stats.get(group, [])]
    figures = [text for report in reports for name, text in report.user_properties if name == "hostile"]
    if figures:
        terminalreporter.section("what was tried", sep="-")
        for text in figures:
            terminalreporter.write_line(text)
    if LEFT_OUT:
        terminalreporter.section("left out, and why", sep="-")
        for group, reason in LEFT_OUT.items():
            terminalreporter.write_line(f"{group}: {reason}")
