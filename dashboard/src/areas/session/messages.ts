import { catalogue } from '~/i18n';

export const messages = catalogue({
  en: {
    title: 'Sign in',
    lead: 'Applications for your own machines',
    user: 'User',
    password: 'Password',
    project: 'Project',
    projectHint: 'Empty: your default project. You can change it later.',
    moreFields: 'Choose a project',
    signIn: 'Sign in',
    over: 'Your session is over. Sign in again; you go on where you were.',
    byLink: 'Signing you in…',
    noAccount: "First time here? 'vetro up' wrote the administrator's name and password to admin-openrc in its data directory; 'vetro dashboard' prints a link that signs you in.",
  },
  de: {
    title: 'Anmelden',
    lead: 'Anwendungen für Ihre eigenen Rechner',
    user: 'Benutzer',
    password: 'Passwort',
    project: 'Projekt',
    projectHint: 'Leer: Ihr Standardprojekt. Sie können es später wechseln.',
    moreFields: 'Projekt wählen',
    signIn: 'Anmelden',
    over: 'Ihre Sitzung ist zu Ende. Melden Sie sich wieder an; es geht weiter, wo Sie waren.',
    byLink: 'Sie werden angemeldet …',
    noAccount: '„vetro up“ hat Namen und Passwort der Verwaltung in die Datei admin-openrc seines Datenverzeichnisses geschrieben; „vetro dashboard“ gibt einen Link aus, der Sie anmeldet.',
  },
});
