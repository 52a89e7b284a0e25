#!/usr/bin/env python3
"""Compares hostile.txt with the verdict of a foreign parser (expat): `accept` or `reject`, by line."""
import pathlib
import re
import sys
import xml.parsers.expat

HEADER = (b"<stream:stream from='example.org' id='s1' version='1.0' xmlns='jabber:client' "
          b"xmlns:stream='http://etherx.jabber.org/streams'>")


def verdict(data):
    parser = xml.parsers.expat.ParserCreate(namespace_separator="|")
    try:
        # Not the final piece: an unfinished stream is no error.
        parser.Parse(data, False)
        return "accept"
    except xml.parsers.expat.ExpatError:
        return "reject"


differences = 0
cases = 0
for line in pathlib.Path(__file__).with_name("hostile.txt").read_text().splitlines():
    if line.startswith("#"):
        continue
    name, ours, _, expected, text = line.split("\t")
    data = re.sub(rb"\\x(..)", lambda m: bytes([int(m[1], 16)]), text.encode())
    data = data.replace(b"{H}", HEADER)
    cases += 1
    actual = verdict(data)
    if actual != expected:
        differences += 1
        print(f"{name}: expat would {actual}, the table says {expected} (ours: {ours})")
print(f"{cases} cases, {differences} differences")
sys.exit(1 if differences else 0)
