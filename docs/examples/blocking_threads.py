import concurrent.futures

from fairlane import MongoTransport

with MongoTransport.from_url("mongodb://localhost:27017", "app") as transport:
    transport.publish_many([(f"order-{n}", {"kind": "paid"}) for n in range(4)])

    def work(name: str) -> int:
        done = 0
        while lease := transport.claim(name, visibility=30):
            transport.ack(lease)
            done += 1
        return done

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        done = sum(threads.map(work, ["w1", "w2", "w3", "w4"]))
    print("done", done)
