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
    process = os.pidfd_open(pid)  # not whoever gets its number
    signal.pidfd_send_signal(process, signal.SIGSTOP)
    until(lambda: state(pid) == "T")
    signal.pidfd_send_signal(process, signal.SIGCONT)
    os.close(process)
    until(lambda: state(pid) != "T")
    time.sleep(0.05)


def unread(s):
    return struct.unpack("i", fcntl.ioctl(s, termios.TIOCOUTQ, bytes(4)))[0]


def to_server_stopped():
    to_server = socket.socket(socket.AF_UNIX)
    to_server.connect(f"{directory}/stratusd-{server}.sock")
    to_server.sendall(b"pi")
    until(lambda: unread(to_server) == 0)
    stopped_for_a_moment(server)
    try:
        to_server.sendall(b"ng\n")
        answer = to_server.makefile().read()
    except OSError as e:
        answer = str(e)
    return answer.startswith("ok\n"), f"stratusd answers: {answer}"


def client_stopped():
    client = subprocess.Popen([stratus, "log-level", str(os.getpid())], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for answer in f'{{"program": "stratusd", "pid": {os.getpid()}}}\n', "loud\n":  # to "info", then to what is asked
        try:
            of_client = listener.accept()[0]
        except TimeoutError:  # it has given up before
            break
        of_client.makefile().read()
        if answer == "loud\n":
            stopped_for_a_moment(client.pid)
        try:
            of_client.sendall(b"ok\n" + answer.encode())
        except OSError:
            pass
        of_client.close()
    said = client.communicate()[0]
    return said == "loud\n", f"stratus says: {said}"


def holds(what):
    """Each waits for 5 seconds for the other. If all of it has taken that long, nothing is known, and it is tried again."""
    for _ in range(20):
        begin = time.monotonic()
        well, said = what()
        if well:
            return
        if time.monotonic() - begin < 4:
            break
    sys.exit(said)


holds(to_server_stopped)
listener = socket.socket(socket.AF_UNIX)
listener.bind(f"{directory}/stratusd-{os.getpid()}.sock")
listener.listen()
listener.settimeout(20)
try:
    holds(client_stopped)
finally:
    os.unlink(f"{directory}/stratusd-{os.getpid()}.sock")
