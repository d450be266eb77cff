"""The agent of a part: starts its programs on chosen processors, watches them, and reports what they used."""

PORT = 9200
