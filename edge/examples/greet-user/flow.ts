import { Flow } from "@pgflow/dsl";

export const GreetUser = new Flow<{ name: string }>({ slug: "greet_user" })
  .step({ slug: "greet" }, ({ run }) => `Hello, ${run.name}!`);
