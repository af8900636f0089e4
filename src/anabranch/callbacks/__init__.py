"""What Spark asks, one file for each kind of question, and what it is answered."""
