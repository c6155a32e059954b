# SPDX-License-Identifier: Apache-2.0
"""Who is stopped at a control socket in the middle of a command, or of its answer, and goes on, hears the rest:

   stopped.py STRATUS RUN_DIRECTORY STRATUSD_PID
"""
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import termios
import time

stratus, directory, server = sys.argv[1], sys.argv[2], int(sys.argv[3])


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            sys.exit("it takes too long")
        time.sleep(0.01)


def state(pid):
    return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]


def stopped_for_a_moment(pid):
    time.sleep(0.05)  # it has read what there is, and waits for more
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state(pid) == "T")
    os.kill(pid, signal.SIGCONT)
    until(lambda: state(pid) != "T")
    time.sleep(0.05)


def unread(s):
    return struct.unpack("i", fcntl.ioctl(s, termios.TIOCOUTQ, bytes(4)))[0]


to_server = socket.socket(socket.AF_UNIX)
to_server.connect(f"{directory}/stratusd-{server}.sock")
to_server.sendall(b"pi")
until(lambda: unread(to_server) == 0)
stopped_for_a_moment(server)
to_server.sendall(b"ng\n")
answer = to_server.makefile().read()
if not answer.startswith("ok\n"):
    sys.exit(f"stratusd answers: {answer}")

listener = socket.socket(socket.AF_UNIX)
listener.bind(f"{directory}/stratusd-{os.getpid()}.sock")
listener.listen()
client = subprocess.Popen([stratus, "log-level", str(os.getpid())], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
listener.settimeout(60)
for answer in f'{{"program": "stratusd", "pid": {os.getpid()}}}\n', "loud\n":  # to "info", then to what is asked
    of_client = listener.accept()[0]
    of_client.makefile().read()
    if answer == "loud\n":
        stopped_for_a_moment(client.pid)
    of_client.sendall(b"ok\n" + answer.encode())
    of_client.close()
said = client.communicate()[0]
os.unlink(f"{directory}/stratusd-{os.getpid()}.sock")
if said != "loud\n":
    sys.exit(f"stratus says: {said}")
