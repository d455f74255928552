"""Monitors over streams: exactly once, whatever is repeated, killed or changed in between."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

import tocsin
import tocsin.spark
from tests.spark.monitor_answers import Story, in_order, rows_of
from tests.spark.test_live_rules import files_of_batches
