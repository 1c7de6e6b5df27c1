/** The one dependency, in the one place that names its version. */
export { default } from "npm:postgres@3.4.9";
