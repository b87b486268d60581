// What is counted by item is asked as heavy hitters are.
export { default } from "./top_k.js";
