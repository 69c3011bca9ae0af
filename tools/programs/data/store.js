// A node heap: tasks in maps, parsed documents, typed arrays; looked up, changed and replaced. Prints what it found.
"use strict";
const crypto = require("crypto");

let state = 12345;
const random = () => {
  state ^= state << 13; state ^= state >>> 17; state ^= state << 5;
  return (state >>> 0) / 4294967296;
};
const below = (limit) => Math.floor(random() * limit);
const WORDS = ("value object returns when method class using argument default name string number result list order customer price delivery " +
  "late early parcel broken please refund invoice payment address street city leave door neighbour phone before arrival fragile").split(" ");
const sentence = (words) => Array.from({ length: words }, () => WORDS[below(WORDS.length)]).join(" ");
const [count, rounds] = process.argv.slice(2).map(Number);

class Task {
  constructor(number) {
    this.id = number;
    this.title = sentence(4) + " " + number;
    this.done = random() < 0.4;
    this.estimate = random() * 40;
    this.depends = [];
  }
}
const tasks = new Map();
const documents = [];
for (let number = 0; number < count; number++) {
  const task = new Task(number);
  for (let more = below(4); more > 0 && number > 10; more--) task.depends.push(tasks.get(below(number)));
  tasks.set(number, task);
  if (number % 2 === 0) documents.push(JSON.parse(JSON.stringify({
    id: number, user: { name: `${sentence(1)}_${number}`, roles: [sentence(1), sentence(1)], quota: below(1e6) },
    path: `/srv/${sentence(1)}/${sentence(1)}.json`, ok: random() < 0.9, text: sentence(below(30)),
  })));
}
const samples = new Float64Array(count * 4);
for (let at = 1; at < samples.length; at++) samples[at] = samples[at - 1] + Math.round(random() * 100) / 100 - 0.5;
console.log("filled", tasks.size, documents.length);
for (let round = 0; round < rounds; round++) {
  const hash = crypto.createHash("sha256");
  for (let step = 0; step < count / 4; step++) {
    const task = tasks.get(below(count));
    hash.update(task.title + task.done + task.depends.map((other) => other.title).join());
    if (step % 7 === 0) task.title = sentence(4) + " " + step;
    const document = documents[below(documents.length)];
    hash.update(document.user.name + document.text);
    if (step % 5 === 0) document.text = sentence(below(30));
  }
  console.log("round", round, hash.digest("hex"));
}
const hash = crypto.createHash("sha256");
for (const task of tasks.values()) hash.update(task.title + task.estimate);
for (const document of documents) hash.update(JSON.stringify(document));
hash.update(Buffer.from(samples.buffer));
console.log("all", hash.digest("hex"));
