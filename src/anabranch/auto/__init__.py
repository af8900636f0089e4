"""Programs written for delta-spark run unchanged: sessions enable themselves, `delta` is ours, no jar is loaded."""
