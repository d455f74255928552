"""A Spark Connect server for tests, on a free port of the loopback interface."""

import contextlib
import os
import random
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pyspark

import tocsin.spark

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextlib.contextmanager
def connect_session(log, cores=2):
    """Start a server, yield a session on it, and stop both.

    A process can use Classic or Connect, not both, so there must be no other session. A client
    tries to reach a server that has ended for ten minutes. So the session is stopped first, even
    after an error, and if the server ends by itself, so does this process, with the server's log.
    """
    port = _find_port()
    # Clients can run code, so the server has a password. Both sides read it from the environment;
    # without TLS it is sent only to a host with the name localhost.
    os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = uuid.uuid4().hex
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }
    command = [Path(pyspark.__file__).parent / "bin" / "spark-submit", "--class", _SERVER]
    command += ["--master", f"local[{cores}]"]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    with open(log, "wb") as out:
        server = subprocess.Popen(
            [*command, "spark-internal"],
            env=os.environ | {"PYSPARK_PYTHON": sys.executable},
            stdout=out,
            stderr=out,
        )
    is_stopping = threading.Event()
    try:
        _wait_for(port, server, Path(log))
        watch = threading.Thread(target=_watch, args=(server, is_stopping, Path(log)), daemon=True)
        watch.start()
        os.environ["SPARK_REMOTE"] = f"sc://localhost:{port}"
        spark = tocsin.spark.session()
        try:
            yield spark
        finally:
            spark.stop()
    finally:
        is_stopping.set()
        server.terminate()
        server.wait()


def _find_port():
    """Return a free port that the system gives to no client.

    Waiting for a server on one of those can connect to itself, which looks like a server and takes
    its port.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


def _watch(server, is_stopping, log):
    """End this process if the server ends before it is stopped."""
    server.wait()
    if not is_stopping.is_set():
        print(f"the Connect server ended:\n{log.read_text()}", file=sys.stderr, flush=True)
        os._exit(1)


def _wait_for(port, server, log):
    for _ in range(600):
        if server.poll() is not None:
            raise RuntimeError(f"the Connect server ended:\n{log.read_text()}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise RuntimeError(f"the Connect server does not listen:\n{log.read_text()}")
