import assert from "node:assert";
import { test } from "node:test";
import { add } from "../src/add.js";

test("adds", () => assert.equal(add(2, 3), 5));
