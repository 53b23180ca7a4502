"""What is stored of stacks: their records, the store in the database, and who works on them."""
