// What the navigation shows, in this order. An area comes in when its pages exist.
import { IconApps, IconBox, IconFileCode, IconHeartbeat, IconHistory, IconPackage, IconServer2, IconTemplate, IconUsersGroup } from '@tabler/icons-react';
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
  { to: '/packages', icon: IconPackage, messages: messages as Catalogue<string>, text: 'packages' },
  { to: '/templates', icon: IconTemplate, messages: messages as Catalogue<string>, text: 'templates' },
  { to: '/definitions', icon: IconFileCode, messages: messages as Catalogue<string>, text: 'definitions' },
  { to: '/machines', icon: IconServer2, messages: messages as Catalogue<string>, text: 'machines' },
  { to: '/history', icon: IconHistory, messages: messages as Catalogue<string>, text: 'history' },
  { to: '/people', icon: IconUsersGroup, messages: messages as Catalogue<string>, text: 'people', admin: true },
  { to: '/about', icon: IconHeartbeat, messages: messages as Catalogue<string>, text: 'about' },
];
