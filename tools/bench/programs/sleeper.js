// A service that holds documents in its heap, and answers a request with some of them: those of one customer in eight.
"use strict";
const fs = require("fs");

const say = (step) => fs.writeSync(1, JSON.stringify(step) + "\n");
const wait = () => {
  const byte = Buffer.alloc(1);
  for (;;) {
    try {
      return fs.readSync(0, byte, 0, 1, null) === 1;
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
};

say({ step: "hello", pid: process.pid });
if (!wait()) process.exit(2);
const wanted = Number(process.argv[2]) * 1024 * 1024;
const documents = [];
while (process.memoryUsage().heapUsed < wanted) {
  for (let n = 0; n < 2000; n++) {
    const id = documents.length;
    const tags = [];
    for (let tag = 0; tag < 6; tag++) tags.push("tag " + ((id * 31 + tag * 7) % 5000));
    documents.push({ id, customer: id >> 6, name: "document " + id, tags, score: id * 0.37, next: documents[id - 64] });
  }
}
const answer = () => {
  let sum = 0;
  for (const document of documents) {
    if ((document.customer & 7) !== 3) continue;
    sum += document.score + document.tags.length + document.name.length + document.tags[2].length;
  }
  return sum;
};
const expected = answer();
do {
  const began = process.hrtime.bigint();
  const wrong = answer() === expected ? 0 : 1;
  const took = process.hrtime.bigint() - began;
  say({ step: "touched", took_ns: Number(took), pages: 0, slow: 0, p50_ns: 0, p99_ns: 0, wrong });
} while (wait());
