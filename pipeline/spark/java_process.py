"""The Java process of Spark, which can start before pyspark is imported."""

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

_POLL_SECONDS = 0.01
_EXECUTOR_VARIABLES = "spark.executorEnv."


class JavaProcess:
    """Java with Spark's gateway for py4j. It ends when its standard input ends."""

    def __init__(self, settings: Mapping[str, str], directory: Path, output: int | None) -> None:
        """Start Java, and do not wait for it.

        Args:
            settings: Spark settings. Java needs some when it starts.
            directory: A directory for the address of the gateway.
            output: The descriptor of a file for stdout and stderr. None: those of this process.
        """
        home = os.environ.get("SPARK_HOME")
        if not home:
            pyspark = find_spec("pyspark")
            assert pyspark is not None
            assert pyspark.origin is not None
            home = str(Path(pyspark.origin).parent)
        # The variables of executors can be secrets of an object store, and all users can list the
        # arguments of a process. Java needs them only with the session, which sets them again.
        conf = [
            word
            for name, value in settings.items()
            if not name.startswith(_EXECUTOR_VARIABLES)
            for word in ("--conf", f"{name}={value}")
        ]
        arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        #: Java renames a file to this name when its gateway listens.
        self._address = Path(mkdtemp(dir=directory)) / "gateway"
        self.process = subprocess.Popen(  # noqa: S603 - Spark's own command
            [f"{home}/bin/spark-submit", *conf, *arguments],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={
                **os.environ,
                "SPARK_CONNECT_MODE": "0",
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._address),
            },
            # Ctrl-C is for this process, which commits or discards a batch before it ends Java.
            preexec_fn=lambda: signal.signal(  # noqa: PLW1509 - no other thread runs yet
                signal.SIGINT, signal.SIG_IGN
            ),
        )

    def connect(self) -> None:
        """Wait until Java is ready, and let pyspark use it instead of another Java.

        Raises:
            PySparkRuntimeError: Java has ended (``JAVA_GATEWAY_EXITED``).
        """
        from pyspark import SparkContext  # noqa: PLC0415 - Java starts meanwhile
        from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415

        while not self._address.exists():
            if self.process.poll() is not None:
                raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
            time.sleep(_POLL_SECONDS)
        # The port and the length of the secret have four bytes each. The secret follows.
        address = self._address.read_bytes()
        gateway = {
            "PYSPARK_GATEWAY_PORT": str(int.from_bytes(address[:4])),
            "PYSPARK_GATEWAY_SECRET": address[8:].decode(),
        }
        os.environ.update(gateway)
        try:
            SparkContext._ensure_initialized()  # noqa: SLF001 - pyspark has no other way
        finally:
            for name in gateway:
                del os.environ[name]
        SparkContext._gateway.proc = self.process  # type: ignore[union-attr]  # noqa: SLF001

    def end(self) -> None:
        """End Java, and close the pipe to it."""
        with self.process:
            self.process.kill()
