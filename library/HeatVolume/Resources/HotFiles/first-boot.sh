#!/bin/sh
# Runs once, when the machine starts for the first time.
echo 'The volume of this machine keeps what is on it when the machine is made anew.' > /etc/motd
