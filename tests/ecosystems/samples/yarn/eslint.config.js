export default [{ rules: { "no-unused-vars": "error", "prefer-const": "error" } }];
