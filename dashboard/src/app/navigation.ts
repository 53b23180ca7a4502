// What the navigation shows, in this order. An area comes in when its pages exist.
import { IconApps, IconBox, IconServer2 } from '@tabler/icons-react';
import type { FunctionComponent } from 'react';
import type { Catalogue } from '~/i18n';
import { messages } from './messages';

export interface Entry {
  to: string;
  icon: FunctionComponent<{ size?: number; stroke?: number }>;
  messages: Catalogue<string>;
  text: string;
  /** Only administrators see it. */
  admin?: boolean;
}

export const ENTRIES: Entry[] = [
  { to: '/environments', icon: IconBox, messages: messages as Catalogue<string>, text: 'environments' },
  { to: '/catalog', icon: IconApps, messages: messages as Catalogue<string>, text: 'catalog' },
  { to: '/machines', icon: IconServer2, messages: messages as Catalogue<string>, text: 'machines' },
];
