import { expect, test } from "bun:test";
import { add } from "./add";

test("adds", () => expect(add(2, 3)).toBe(5));
