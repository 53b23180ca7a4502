// What the navigation shows, in this order. An area comes in when its pages exist.
import { IconApps, IconBox, IconFileCode, IconHeartbeat, IconHistory, IconPackage, IconServer2, IconTemplate, IconUsersGroup } from '@tabler/icons-react';
import type { FunctionComponent } from 'react';
import type { Catalogue } from '~/i18n';
import { messages } from './messages';
import type { Rule } from './session';

export interface Entry {
  to: string;
  icon: FunctionComponent<{ size?: number; stroke?: number }>;
  messages: Catalogue<string>;
  text: string;
  /** Only administrators see it. */
  admin?: boolean;
  /** Only who passes this rule of the policy sees it. */
  rule?: Rule;
}

export const ENTRIES: Entry[] = [
  { to: '/environments', icon: IconBox, messages: messages as Catalogue<string>, text: 'environments', rule: 'list_environments' },
  { to: '/catalog', icon: IconApps, messages: messages as Catalogue<string>, text: 'catalog', rule: 'get_package' },
  { to: '/packages', icon: IconPackage, messages: messages as Catalogue<string>, text: 'packages', rule: 'get_package' },
  { to: '/templates', icon: IconTemplate, messages: messages as Catalogue<string>, text: 'templates', rule: 'list_env_templates' },
  { to: '/definitions', icon: IconFileCode, messages: messages as Catalogue<string>, text: 'definitions' },
  { to: '/machines', icon: IconServer2, messages: messages as Catalogue<string>, text: 'machines' },
  { to: '/history', icon: IconHistory, messages: messages as Catalogue<string>, text: 'history', rule: 'list_deployments_all_environments' },
  { to: '/people', icon: IconUsersGroup, messages: messages as Catalogue<string>, text: 'people', admin: true },
  { to: '/about', icon: IconHeartbeat, messages: messages as Catalogue<string>, text: 'about' },
];
