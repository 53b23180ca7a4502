"""What every part of the compute service uses: its errors (`faults`), parameters of calls and their
checks (`parameters`), records as the API shows them (`records`), numbers that rise over all
processes (`counters`).
"""
