// Asks the server. What goes wrong is said in a sentence, whatever the browser calls it.

export async function ask(address, headers = {}) {
  let response;
  try {
    response = await fetch(address, { headers });
  } catch (error) {
    throw new Error("The server did not answer.", { cause: error });
  }
  if (!response.ok) throw new Error(`The server answered ${response.status}.`);
  return response;
}
