"""Programs written for delta-spark, unchanged: sessions enable themselves, `delta` is answered, the jar is left out."""
