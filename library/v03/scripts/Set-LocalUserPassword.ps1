function Set-LocalUserPassword {
    # Sets a local user's password. -Force: also where it never expires.
    param(
        [Parameter(Mandatory)] [string] $UserName,
        [Parameter(Mandatory)] [string] $Password,
        [switch] $Force
    )
    if ((Get-CimInstance Win32_ComputerSystem).DomainRole -ge 4) {
        # A domain controller has no local users: the account is the domain's.
        Import-Module ActiveDirectory
        $secret = ConvertTo-SecureString -String $Password -AsPlainText -Force
        Set-ADAccountPassword -Identity $UserName -Reset -NewPassword $secret
        return
    }
    $user = [ADSI] "WinNT://./$UserName,user"
    $user.SetPassword($Password)
    if ($Force) {
        $user.UserFlags = $user.UserFlags.Value -bor 0x10000
    }
    $user.SetInfo()
    Write-Log "The password of $UserName is set"
}
