"""What a run or a restatement would read, touch and take, and the measurements that such predictions
rest on.
"""
