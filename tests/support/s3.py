"""A real server of the S3 protocol, as a process of its own on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .waiting import wait_for

BUCKET = "kept"


class S3Server:
    """One that runs. ``env`` is what a gateway needs to find it."""

    def __init__(self, log: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.env = {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "key-of-the-test",
            "AWS_SECRET_ACCESS_KEY": "secret-of-the-test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }
        script = "from moto.server import main; main()"
        command = [sys.executable, "-c", script, "-H", "127.0.0.1", "-p", str(self.port)]
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **self.env}
            )
        wait_for(self._answers, 60, "the S3 server")

    def _answers(self) -> bool:
        assert self.process.poll() is None
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def client(self) -> Any:
        """Return boto3's, which shares nothing with what is tested."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=self.env["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.env["AWS_SECRET_ACCESS_KEY"],
        )

    def objects(self) -> list[str]:
        """Return the names of all objects."""
        return [each["Key"] for each in self.client().list_objects_v2(Bucket=BUCKET).get("Contents", [])]

    def unfinished(self) -> list[str]:
        """Return the names of all uploads in parts that were never completed."""
        return [each["Key"] for each in self.client().list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(20)


@contextmanager
def s3_server(log: Path) -> Iterator[S3Server]:
    """Run one with an empty bucket."""
    server = S3Server(log)
    try:
        server.client().create_bucket(Bucket=BUCKET)
        yield server
    finally:
        server.stop()
