/**
 * What is secret: the service's own rule (docs/secrets.md, `vetro.secrecy`), for what pages show.
 *
 * A value is secret by the words of the name that it stands under. The test beside this file compares the two.
 */

export const MASK = '••••••';
const WORDS = new Set('password passwords passwd passphrase passphrases pass pw pwd secret secrets token tokens pivtoken credential credentials'.split(' '));
const KINDS_OF_KEYS = new Set('access account api encryption engine master node private root secret service shared signing'.split(' '));
const ENDS = ['password', 'passwd', 'passphrase', 'secret'];
const COMPOUNDS = new Set('apikey privatekey secretkey accesskey rootpw userdata'.split(' '));

/** Whether what stands under `name` is secret. */
export function isSecret(name: string): boolean {
  const words = (name.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+/g) ?? []).map((word) => word.toLowerCase());
  if (words.join(' ') === 'user data') return true;
  return words.some(
    (word, at) =>
      WORDS.has(word) ||
      COMPOUNDS.has(word) ||
      (words.length === 1 && ENDS.some((end) => word.endsWith(end))) ||
      ((word === 'key' || word === 'keys') && at > 0 && KINDS_OF_KEYS.has(words[at - 1] ?? '')),
  );
}

/** Whether there is nothing to hide: what is empty, and switches, stay as they are. */
const isPlain = (value: unknown) =>
  value === null || value === undefined || value === '' || typeof value === 'boolean' || (typeof value === 'object' && Object.keys(value).length === 0);

/** `value` (JSON) with a mask for what is secret in it. */
export function masked(value: unknown, name = ''): unknown {
  if (name && isSecret(name) && !isPlain(value)) return MASK;
  if (Array.isArray(value)) return value.map((one) => masked(one));
  if (typeof value === 'object' && value !== null) return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, masked(one, key)]));
  return value;
}
