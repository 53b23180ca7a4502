// The part of noVNC's interface that is used: the package has no types of its own.
declare module '@novnc/novnc' {
  export default class RFB extends EventTarget {
    constructor(target: HTMLElement, channel: WebSocket | string, options?: { credentials?: { password?: string } });
    scaleViewport: boolean;
    background: string;
    focus(): void;
    disconnect(): void;
    sendCtrlAltDel(): void;
  }
}
