"""What every command shares of the terminal: tables and JSON, errors, questions, times, streams."""
