// A node heap: parsed JSON, maps, class instances, closures, typed arrays, and source text with its tokens.
"use strict";
const fs = require("fs");
const path = require("path");

let state = 12345;
const random = () => {
  state ^= state << 13; state ^= state >>> 17; state ^= state << 5;
  return (state >>> 0) / 4294967296;
};
const pick = (list) => list[Math.floor(random() * list.length)];
const size = Number(process.argv[2]);

// Source text: whatever JavaScript is installed with node.
const sources = new Map();
const tokens = [];
let read = 0;
const walk = (directory, depth) => {
  let entries = [];
  try { entries = fs.readdirSync(directory, { withFileTypes: true }); } catch { return; }
  for (const entry of entries) {
    if (read > size * 100) return;
    const full = path.join(directory, entry.name);
    if (entry.isDirectory() && depth < 8) walk(full, depth + 1);
    else if (/\.(js|json|md)$/.test(entry.name)) {
      const text = fs.readFileSync(full, "utf8");
      read += text.length;
      sources.set(full, text);
      if (tokens.length < size) for (const match of text.matchAll(/[A-Za-z_$][\w$]*|\d+|"[^"\n]*"|[^\s\w]/g)) {
        tokens.push({ kind: /^[A-Za-z_$]/.test(match[0]) ? "name" : "other", text: match[0], at: match.index, file: full });
        if (tokens.length >= size) break;
      }
    }
  }
};
for (const start of [path.join(path.dirname(process.execPath), "../lib/node_modules"), "/usr/lib/node_modules", "/usr/share/nodejs"]) walk(start, 0);
const words = [...new Set(tokens.filter((token) => token.kind === "name").map((token) => token.text))].concat("alpha", "beta");

class Task {
  constructor(number) {
    this.id = number;
    this.title = `${pick(words)} ${pick(words)} ${pick(words)}`;
    this.done = random() < 0.4;
    this.priority = Math.floor(random() * 5);
    this.estimate = random() * 40;
    this.created = new Date(1.7e12 + Math.floor(random() * 3e10));
    this.depends = [];
    this.run = () => this.title + number;
  }
}
const tasks = new Map();
const byWord = new Map();
for (let number = 0; number < size / 4; number++) {
  const task = new Task(number);
  for (let count = Math.floor(random() * 4); count > 0 && number > 10; count--) task.depends.push(tasks.get(Math.floor(random() * number)));
  tasks.set(number, task);
  for (const word of task.title.split(" ")) {
    if (!byWord.has(word)) byWord.set(word, []);
    byWord.get(word).push(number);
  }
}
const documents = [];
for (let number = 0; number < size / 6; number++) {
  documents.push(JSON.parse(JSON.stringify({
    id: number, user: { name: `${pick(words)}_${number}`, roles: [pick(words), pick(words)], quota: Math.round(random() * 1e6) },
    metrics: { cpu: random(), memory: Math.floor(random() * 1e9), loads: [random(), random() * 2, random() * 3] },
    path: `/srv/${pick(words)}/${pick(words)}.json`, ok: random() < 0.9, text: Array.from({ length: Math.floor(random() * 20) }, () => pick(words)).join(" "),
  })));
}
const samples = new Float64Array(size);
for (let at = 1; at < samples.length; at++) samples[at] = samples[at - 1] + random() - 0.5;
console.log("filled");
process.stdin.resume();
process.stdin.on("end", () => { console.log(tasks.size + documents.length + sources.size + samples.length + byWord.size); });
