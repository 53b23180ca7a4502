// Message catalogues: each area has one, in every language, in ICU message syntax.
import { IntlMessageFormat } from 'intl-messageformat';
import { createContext, useContext, useMemo } from 'react';

export const LANGUAGES = { en: 'English', de: 'Deutsch' } as const;
export type Language = keyof typeof LANGUAGES;
type Values = Record<string, string | number | null | undefined>;
/** The same keys in every language: a missing translation breaks the build. */
export type Catalogue<Key extends string> = Record<Language, Record<Key, string>>;

export function catalogue<const Key extends string>(messages: { en: Record<Key, string>; de: Record<NoInfer<Key>, string> }): Catalogue<Key> {
  return messages;
}

const RIGHT_TO_LEFT = new Set(['ar', 'ckb', 'dv', 'fa', 'he', 'ps', 'sd', 'ug', 'ur', 'yi']);

/** Where lines of a language begin. The pages follow it: their styles say "start" and "end". */
export const directionOf = (language: string): 'ltr' | 'rtl' => (RIGHT_TO_LEFT.has(language.split('-')[0] ?? '') ? 'rtl' : 'ltr');

const STORED = 'vetro.language';

export function preferredLanguage(): Language {
  const stored = localStorage.getItem(STORED);
  for (const wanted of [stored, ...navigator.languages]) {
    const short = wanted?.slice(0, 2) ?? '';
    if (short in LANGUAGES) return short as Language;
  }
  return 'en';
}

export function storeLanguage(language: Language) {
  localStorage.setItem(STORED, language);
}

export const LanguageContext = createContext<{ language: Language; setLanguage: (language: Language) => void }>({ language: 'en', setLanguage: () => {} });

export function useLanguage() {
  return useContext(LanguageContext);
}

const compiled = new Map<string, IntlMessageFormat>();

export function format(language: Language, message: string, values: Values): string {
  if (!message.includes('{')) return message;
  const key = `${language}\0${message}`;
  let known = compiled.get(key);
  if (!known) compiled.set(key, (known = new IntlMessageFormat(message, language)));
  return known.format(values) as string;
}

/** The texts of an area in the current language: `t('key', { count: 3 })`. */
export function useTexts<Key extends string>(messages: Catalogue<Key>) {
  const { language } = useLanguage();
  return useMemo(() => (key: Key, values: Values = {}) => format(language, messages[language][key], values), [language, messages]);
}
