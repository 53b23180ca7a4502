#!/bin/sh
# status.sh PORT: who answers at PORT, and with what.
exec python3 - "$1" <<'PYTHON'
import sys
import urllib.request

with urllib.request.urlopen("http://127.0.0.1:%s/" % sys.argv[1], timeout=10) as answer:
    print(answer.status, answer.headers.get("Server"))
PYTHON
