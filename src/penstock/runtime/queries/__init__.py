"""The queries of a run: started, supervised, restarted, and how much each epoch takes."""
