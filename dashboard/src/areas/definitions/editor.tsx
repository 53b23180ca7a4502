import { json } from '@codemirror/lang-json';
import { xml } from '@codemirror/lang-xml';
import { yaml } from '@codemirror/lang-yaml';
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { EditorView } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { basicSetup } from 'codemirror';
import { getNonce } from 'get-nonce';
import { useEffect, useRef } from 'react';
import classes from './page.module.css';

interface EditorProps {
  file: string;
  text: string;
  label: string;
  changed: (text: string) => void;
}

const languageOf = (file: string) => (file.endsWith('.xml') ? [xml()] : /\.ya?ml$/.test(file) ? [yaml()] : file.startsWith('heat/') || file.endsWith('.json') ? [json()] : []);

// Colours of the page's theme, which is light or dark.
const look = EditorView.theme({
  '&': { backgroundColor: 'transparent', color: 'var(--mantine-color-text)', maxHeight: '65vh' },
  '.cm-content': { fontFamily: 'var(--mantine-font-family-monospace)', caretColor: 'var(--mantine-color-text)' },
  '.cm-gutters': { backgroundColor: 'transparent', color: 'var(--mantine-color-dimmed)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'transparent' },
  '&.cm-focused': { outline: 'none' },
  '&.cm-focused .cm-cursor': { borderInlineStartColor: 'var(--mantine-color-text)' },
});
const colours = HighlightStyle.define([
  { tag: [tags.tagName, tags.keyword, tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--mantine-color-anchor)' },
  { tag: [tags.attributeName, tags.number, tags.bool], color: 'var(--mantine-color-blue-light-color)' },
  { tag: [tags.comment, tags.processingInstruction], color: 'var(--mantine-color-dimmed)' },
]);

/** A text with line numbers, colours, search (Ctrl+F) and undo. */
export function Editor({ file, text, label, changed }: EditorProps) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const tell = useRef(changed);
  tell.current = changed;
  const begin = useRef(text);
  begin.current = text;
  useEffect(() => {
    if (!place.current) return undefined;
    const made = new EditorView({
      doc: begin.current,
      parent: place.current,
      extensions: [
        basicSetup,
        languageOf(file),
        look,
        syntaxHighlighting(colours),
        EditorView.cspNonce.of(getNonce() ?? ''),
        EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) tell.current(update.state.doc.toString());
        }),
      ],
    });
    view.current = made;
    return () => made.destroy();
  }, [file, label]);
  useEffect(() => {
    const shown = view.current;
    // Taken back from outside: what is typed here is the same already.
    if (shown && shown.state.doc.toString() !== text) shown.dispatch({ changes: { from: 0, to: shown.state.doc.length, insert: text } });
  }, [text]);
  return <div ref={place} className={classes.editor} />;
}
