from fairlane import JobQueue

with JobQueue.connect("mongodb://localhost:27017", "app") as queue:
    queue.enqueue({"to": "ann"}, "email", unique_key="welcome:ann")
    queue.enqueue({"to": "bob"}, "email", delay=60)
    job = queue.claim("email", lease=30)
    if job:
        print("sent to", job.payload["to"])
        queue.ack(job)
    stats = queue.stats("email")
    print("delayed", stats.delayed, "done", stats.done)
